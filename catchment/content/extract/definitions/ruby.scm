(class name: (_) @name) @class
(module name: (_) @name) @module
(method name: (_) @name) @method
(singleton_method name: (_) @name) @method
