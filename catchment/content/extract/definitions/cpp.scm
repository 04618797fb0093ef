(class_specifier name: (type_identifier) @name body: (_)) @class
(namespace_definition name: (_) @name) @namespace
(function_definition declarator: (function_declarator declarator: (field_identifier) @name)) @method
(function_definition declarator: (_ declarator: (function_declarator declarator: (field_identifier) @name))) @method
(function_definition declarator: (function_declarator declarator: (qualified_identifier) @name)) @method
(alias_declaration name: (type_identifier) @name) @type
