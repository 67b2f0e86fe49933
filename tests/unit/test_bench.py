"""bench.py: its arithmetic, its names, its schema, and what it does when a row is wrong."""

import json
import math

import numpy as np
import pytest

from benchmarks import command as bench
from benchmarks import context as bench_context
from benchmarks import measure, rows, tensor_rows
from benchmarks.selection import select
from drivers.base.errors import Unsupported
from tests.support import check

STABLE_NAMES = {
    *(f"matmul_{dtype}_{side}" for dtype in ("f32", "bf16") for side in (512, 1024, 2048)),
    *("gemv_f32_4096", "gemv_f32_4096_t"),
    *("add_256MiB", "sum_256MiB", "softmax_4096", "layernorm_4096"),
    *("copy_h2d", "copy_d2h", "copy_d2d", "launch", "launch_wait"),
    *("replay_1", "replay_10", "replay_100", "eager_tiny"),
    *("import", "first_result_cold", "first_result_warm"),
}
FIELDS = {"name", "value", "unit", "reference", "reference_value", "ratio"}


def seconds_in_turn(*seconds):
    """A timer that reports the given seconds, again and again."""
    calls = iter(range(10**6))
    return lambda: seconds[next(calls) % len(seconds)]


def case(ours, theirs, **more):
    return measure.Case("us", "stand-in", seconds_in_turn(*ours), seconds_in_turn(*theirs), **more)


def test_row_names_are_the_promised_ones():
    check(set(rows.ROWS) >= STABLE_NAMES, str(STABLE_NAMES - set(rows.ROWS)))


@pytest.mark.parametrize("unit", sorted(measure.SCALE))
def test_ratio_above_one_means_that_we_are_better(unit):
    result = measure.summarise("r", measure.Case(unit, "", float, float), [[1.0, 2.0]])
    np.testing.assert_equal(result.ratio, 2.0)
    if unit in measure.RATES:
        check(result.value > result.reference_value, "twice as fast is the higher rate")
    else:
        check(result.value < result.reference_value, "twice as fast is the shorter time")


def test_what_a_device_refuses_is_skipped_by_its_reason(monkeypatch):
    def refused(_):
        raise Unsupported("there is no float64 here", hint="use float32")

    monkeypatch.setitem(rows.ROWS, "import", refused)
    result = rows.run_row("import", bench_context.Context(), 0.1)
    check(result.skipped == "refused: there is no float64 here", result.skipped)
    check(not result.error and result.value is None, "not an error")


def test_a_product_that_takes_too_long_is_skipped_by_the_rate_of_a_smaller_one():
    context = bench_context.Context()
    run = tensor_rows._rated(context, "float32", 2.0 * 512**3, lambda: 0.5)
    np.testing.assert_equal(run(), 0.5)
    tensor_rows._check_patience(context, "float32", 2.0 * 1024**3)
    tensor_rows._check_patience(context, "bfloat16", 2.0 * 2048**3)
    with pytest.raises(measure.Skipped, match="32 s"):
        tensor_rows._check_patience(context, "float32", 2.0 * 2048**3)


def test_units():
    np.testing.assert_allclose(measure.in_unit(0.5, "GFLOP/s", 1e9), 2.0)
    np.testing.assert_allclose(measure.in_unit(2.0, "GB/s", 4e9), 2.0)
    np.testing.assert_allclose(measure.in_unit(3e-6, "us", 1.0), 3.0)
    np.testing.assert_allclose(measure.in_unit(3.0, "s", 1.0), 3.0)


def test_medians_are_of_pairs():
    samples = [[1.0, 1.0], [2.0, 4.0], [100.0, 300.0]]
    result = measure.summarise("r", measure.Case("s", "", float, float), samples)
    np.testing.assert_equal((result.value, result.reference_value, result.ratio), (2.0, 4.0, 2.0))


def test_torch_is_a_second_reference():
    result = measure.summarise(
        "r", measure.Case("s", "", float, float, torch=float), [[1.0, 2.0, 0.5]]
    )
    np.testing.assert_equal((result.ratio, result.torch_ratio), (2.0, 0.5))
    check(FIELDS | {"torch_value", "torch_ratio"} == set(result.row()))


def test_measuring_warms_up_and_then_alternates_the_order():
    order = []
    made = measure.Case(
        "s", "", lambda: order.append("o") or 1.0, lambda: order.append("t") or 1.0, least_pairs=4
    )
    measure.measure("r", made, budget_s=-1.0)
    np.testing.assert_equal("".join(order), "ot" + "ottootto")


def test_a_row_holds_the_promised_fields():
    row = measure.measure("r", case((1e-6,), (2e-6,)), budget_s=-1.0).row()
    np.testing.assert_equal(set(row), FIELDS)
    np.testing.assert_allclose((row["value"], row["reference_value"], row["ratio"]), (1, 2, 2))


def test_timer_divides_by_the_calls():
    calls = []
    seconds = measure.timer(lambda: calls.append(0), 7)()
    np.testing.assert_equal(len(calls), 7)
    check(seconds > 0)


def test_a_wrong_result_is_not_timed(monkeypatch, capsys):
    def build(context):
        bench_context.expect_close(np.ones(3), np.zeros(3), 0.1)

    monkeypatch.setitem(rows.ROWS, "launch", build)
    results = bench.run(["launch"], bench_context.Context(), 0.0)
    check("WrongResult" in results[0].error)
    check("ERROR" in capsys.readouterr().out)
    check(results[0].value is None)


def test_a_row_that_the_device_lacks_is_left_out(monkeypatch):
    monkeypatch.setitem(rows.ROWS, "launch", lambda context: None)
    np.testing.assert_equal(bench.run(["launch"], bench_context.Context(), 0.0), [])


@pytest.mark.parametrize("wrong", [math.nan, math.inf, 1.5])
def test_expect_close_finds_one_wrong_element(wrong):
    want = np.ones(1000)
    got = want.copy()
    bench_context.expect_close(got, want, 0.0)
    got[777] = wrong
    with pytest.raises(measure.WrongResult):
        bench_context.expect_close(got, want, 1e-3)


def test_expect_close_compares_shapes():
    with pytest.raises(measure.WrongResult, match="shape"):
        bench_context.expect_close(np.ones((2, 1)), np.ones((1, 2)), 1.0)


def test_only_selects_by_name_and_by_pattern():
    names = list(rows.ROWS)
    np.testing.assert_equal(select(names, ["launch"]), ["launch"])
    np.testing.assert_equal(select(names, ["replay_*"]), ["replay_1", "replay_10", "replay_100"])
    np.testing.assert_equal(select(names, []), names)
    with pytest.raises(ValueError, match="launch_wait"):
        select(names, ["nothing"])


def test_report_is_the_promised_schema():
    result = measure.measure("r", case((1e-6,), (2e-6,)), budget_s=-1.0)
    report = json.loads(json.dumps(bench.report("CPU", "x86_64", [result])))
    np.testing.assert_equal(set(report), {"device", "arch", "rows"})
    np.testing.assert_equal(report["rows"][0]["name"], "r")


def test_threads_are_pinned_on_both_sides(monkeypatch):
    for variable in bench.THREAD_VARIABLES:
        monkeypatch.setenv(variable, "0")
    monkeypatch.setenv("DEV", "AMD")
    bench.pin_settings(1, "CPU", None)
    check(all(bench.os.environ[variable] == "1" for variable in bench.THREAD_VARIABLES))
    np.testing.assert_equal(bench.os.environ["DEV"], "CPU")


@pytest.mark.parametrize(
    ("inherited", "asked", "after", "reported"),
    [
        ("Haswell", None, None, True),
        ("Haswell", "Zen", "Zen", False),
        (None, "Zen", "Zen", False),
        (None, None, None, False),
    ],
)
def test_the_reference_chooses_its_own_kernels(monkeypatch, inherited, asked, after, reported):
    for variable in bench.THREAD_VARIABLES:
        monkeypatch.setenv(variable, "0")
    monkeypatch.setenv("OPENBLAS_CORETYPE", inherited or "")
    if inherited is None:
        monkeypatch.delenv("OPENBLAS_CORETYPE")
    note = bench.pin_settings(1, None, asked)
    np.testing.assert_equal(bench.os.environ.get("OPENBLAS_CORETYPE"), after)
    np.testing.assert_equal("Haswell" in note, reported)


def test_help_and_wrong_options(capsys):
    with pytest.raises(SystemExit) as stop:
        bench.parse(["--help"])
    np.testing.assert_equal(stop.value.code, 0)
    text = capsys.readouterr().out
    for option in ("--device", "--json", "--quick", "--only", "--plot"):
        check(option in text, option)
    with pytest.raises(SystemExit):
        bench.parse(["--threads", "0"])
