"""The measuring client of the streaming benchmark: its count of faults is a promise only if it sees each kind of them."""

from tests.benchmarks.load import Stream, count_breaks, stored_answer


def test_numbers_that_go_on_by_one_from_the_first_have_no_breaks():
    assert count_breaks([1, 2, 3], first=1) == 0
    assert count_breaks([], first=0) == 0


def test_a_lost_a_repeated_and_an_exchanged_number_are_seen():
    assert count_breaks([0, 1, 3], first=0) == 1
    assert count_breaks([0, 1, 1, 2], first=0) == 1
    assert count_breaks([0, 2, 1, 3], first=0) == 3


def test_a_stream_that_lost_its_beginning_is_at_fault():
    assert count_breaks([2, 3], first=1) == 1


def test_a_stored_answer_that_differs_from_the_streamed_one_is_a_fault():
    same = Stream(began=0.0, seqs=[1, 2], order=[0], pieces=["0:5 "], stored="0:5 ")
    other = Stream(began=0.0, seqs=[1, 2], order=[0], pieces=["0:5 "], stored="0:5")

    assert (same.faults, other.faults) == (0, 1)


def test_only_the_assistants_message_is_the_stored_answer():
    mine = b'{"type":"message","data":{"message":{"role":"user","content":"hello"}}}'
    answer = b'{"type":"message","data":{"message":{"role":"assistant","content":"0:5 "}}}'

    assert stored_answer(mine, before=None) is None
    assert stored_answer(answer, before=None) == "0:5 "
