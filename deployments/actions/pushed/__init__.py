"""Let programs push documents: a token for each program, which may push to one source."""

from deployments.actions.pushed.push_place import PushPlace
from deployments.actions.pushed.tokens import PushToken, add_token, forget_tokens, holder, revoke_token, tokens

__all__ = ["PushPlace", "PushToken", "add_token", "forget_tokens", "holder", "revoke_token", "tokens"]
