(class_declaration name: (_) @name) @class
(function_declaration name: (_) @name) @function
(generator_function_declaration name: (_) @name) @function
(method_definition name: [(property_identifier) (private_property_identifier)] @name) @method
(variable_declarator name: (identifier) @name value: [(arrow_function) (function_expression)]) @function
(variable_declarator name: (identifier) @name value: (class)) @class
