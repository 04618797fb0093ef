"""What a deployment asks for, beside what its flow takes. Imports the flows, and Prefect with them."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from pydantic import TypeAdapter, ValidationError

from deployments.sources.prefect_file import Location, PrefectFile

_VARIABLE = re.compile(r"\{\{\s*\$(\w+)\s*\}\}")


def check_flows(file: PrefectFile) -> None:
    """Check every entrypoint, and the parameters against the flow's signature. Raises ConfigError with the line."""
    for index, deployment in enumerate(file.deployments):
        here: Location = ("deployments", index)
        signature = _signature(file, here, deployment.entrypoint)
        _check(file, (*here, "parameters"), signature, deployment.parameters)
        for number, schedule in enumerate(deployment.schedules):
            merged = {**deployment.parameters, **(schedule.parameters or {})}
            _check(file, (*here, "schedules", number, "parameters"), signature, merged)


def _signature(file: PrefectFile, here: Location, entrypoint: str) -> inspect.Signature:
    module, _, name = entrypoint.rpartition(".")
    try:
        function = import_module(module).__dict__[name].fn
    except (ModuleNotFoundError, KeyError, AttributeError) as error:
        if isinstance(error, ModuleNotFoundError) and not module.startswith(error.name or module):
            # The flow is there, and something that it needs is not.
            raise
        raise file.error((*here, "entrypoint"), f"there is no flow {entrypoint}; check the name") from error
    return inspect.signature(function, eval_str=True)


def _check(file: PrefectFile, here: Location, signature: inspect.Signature, given: Mapping[str, Any]) -> None:
    for key in given:
        if key not in signature.parameters:
            known = ", ".join(signature.parameters)
            raise file.error((*here, key), f"the flow does not take {key}; it takes {known}")
    for name, parameter in signature.parameters.items():
        if name not in given:
            if parameter.default is parameter.empty:
                raise file.error(here, f"the flow needs {name}; add it to the parameters")
            continue
        try:
            TypeAdapter(parameter.annotation).validate_python(_filled_in(given[name]))
        except ValidationError as error:
            first = error.errors(include_input=False)[0]
            message = first["msg"].removeprefix("Value error, ")
            raise file.error((*here, name, *first["loc"]), f"the flow refuses {name}: {message}") from error


def _filled_in(value: Any) -> Any:
    """The value with `{{ $NAME }}` replaced from the environment, as Prefect does when it deploys."""
    if isinstance(value, str):
        return _VARIABLE.sub(lambda found: os.environ.get(found[1], ""), value)
    if isinstance(value, dict):
        return {key: _filled_in(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_filled_in(inner) for inner in value]
    return value
