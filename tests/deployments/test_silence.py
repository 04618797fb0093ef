"""Detection of an unresponsive server."""

from __future__ import annotations

from deployments.supervisor.silence import Silence


class Server:
    """A health check with a settable result, and a clock that the test advances."""

    answers = True
    asked = 0
    now = 0.0

    def __call__(self) -> bool:
        self.asked += 1
        return self.answers

    def silent_after(self, silence: Silence, seconds: float) -> bool:
        """Whether the server counts as unresponsive within these seconds, checked at 4 Hz."""
        for _ in range(int(seconds * 4)):
            self.now += 0.25
            if silence.is_long():
                return True
        return False


def test_server_is_unresponsive_after_failed_checks_in_a_row() -> None:
    server = Server()
    silence = Silence(server, lambda: server.now)
    assert not server.silent_after(silence, 600)
    server.answers = False
    assert not server.silent_after(silence, 40)
    assert server.silent_after(silence, 10)


def test_one_answer_resets_the_count_and_checks_are_rare() -> None:
    server = Server()
    silence = Silence(server, lambda: server.now)
    for _ in range(5):
        server.answers = False
        assert not server.silent_after(silence, 35)
        server.answers = True
        assert not server.silent_after(silence, 6)
    assert server.asked < 50


def test_late_check_counts_as_one_failure() -> None:
    server = Server()
    silence = Silence(server, lambda: server.now)
    server.answers = False
    server.now += 3_600
    assert not silence.is_long()
    server.answers = True
    assert not server.silent_after(silence, 60)
