"""How the command line ends when something is wrong: one message, a code, no traceback."""

import pytest

from cli import main as command_line
from cli.errors import AnswerIsNo, WrongInput


def end_of(
    error: BaseException, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[int, str]:
    def fails() -> None:
        raise error

    monkeypatch.setattr(command_line, "app", fails)
    with pytest.raises(SystemExit) as ended:
        command_line.main()
    return int(ended.value.code or 0), capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (AnswerIsNo("none of them"), 1, "attnroof: none of them\n"),
        (WrongInput("give a model"), 2, "attnroof: give a model\n"),
        (ValueError("tp=0"), 2, "attnroof: tp=0\n"),
        (FileNotFoundError(2, "No such file", "x"), 2, "attnroof: x: No such file\n"),
        (OSError("the disk is gone"), 2, "attnroof: the disk is gone\n"),
        (SystemExit(130), 130, "attnroof: interrupted; what `attnroof tune` measured is kept: "),
        (TypeError("oops"), 2, "attnroof: this is a mistake in attnroof, not in the command: TypeError: oops; please "),
    ],
)
def test_each_error_has_a_code_and_one_line(error, code, says, monkeypatch, capsys) -> None:
    ended, text = end_of(error, monkeypatch, capsys)
    assert ended == code
    assert text.startswith(says)
    assert text.count("\n") == 1


def test_a_traceback_can_be_asked_for(monkeypatch, capsys) -> None:
    monkeypatch.setenv("ATTNROOF_TRACEBACK", "1")
    monkeypatch.setattr(command_line, "app", lambda: [].pop())
    with pytest.raises(IndexError):
        command_line.main()


def test_an_ordinary_end_says_nothing(monkeypatch, capsys) -> None:
    assert end_of(SystemExit(1), monkeypatch, capsys) == (1, "")
