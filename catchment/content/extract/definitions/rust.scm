(function_item name: (identifier) @name) @function
(function_signature_item name: (identifier) @name) @function
(struct_item name: (type_identifier) @name) @struct
(enum_item name: (type_identifier) @name) @enum
(union_item name: (type_identifier) @name) @union
(trait_item name: (type_identifier) @name) @trait
(type_item name: (type_identifier) @name) @type
(mod_item name: (identifier) @name body: (_)) @module
(macro_definition name: (identifier) @name) @macro
(impl_item type: (_) @name) @impl
