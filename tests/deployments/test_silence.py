"""When a server counts as one that answers nothing any more."""

from __future__ import annotations

from deployments.supervisor.silence import Silence


class Server:
    """One that answers or does not, and a clock that a test moves on."""

    answers = True
    asked = 0
    now = 0.0

    def __call__(self) -> bool:
        self.asked += 1
        return self.answers

    def silent_after(self, silence: Silence, seconds: float) -> bool:
        """Whether it is given up on within so many seconds, if it is looked at four times a second."""
        for _ in range(int(seconds * 4)):
            self.now += 0.25
            if silence.is_long():
                return True
        return False


def test_a_server_is_given_up_on_when_it_has_answered_nothing_for_a_while() -> None:
    server = Server()
    silence = Silence(server, lambda: server.now)
    assert not server.silent_after(silence, 600)
    server.answers = False
    assert not server.silent_after(silence, 40)
    assert server.silent_after(silence, 10)


def test_one_answer_is_enough_and_it_is_asked_rarely() -> None:
    server = Server()
    silence = Silence(server, lambda: server.now)
    for _ in range(5):
        server.answers = False
        assert not server.silent_after(silence, 35)
        server.answers = True
        assert not server.silent_after(silence, 6)
    assert server.asked < 50


def test_a_look_that_comes_late_is_no_proof_of_silence() -> None:
    server = Server()
    silence = Silence(server, lambda: server.now)
    server.answers = False
    server.now += 3_600
    assert not silence.is_long()
    server.answers = True
    assert not server.silent_after(silence, 60)
