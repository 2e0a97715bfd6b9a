"""`attnroof tune`: from a model's config.json to a verified, saved attention configuration."""

import sys
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from cli.errors import AnswerIsNo, WrongInput
from cli.options import JsonOption, KvDtypeOption, ModelOption, PageSizeOption, TpOption
from cli.output import print_table, stdout_console, write_json

if TYPE_CHECKING:
    from tuner.tune import Result

DeviceOption = Annotated[str | None, typer.Option("--device", help="cuda:0, cpu or all; the first GPU, else the CPU.")]
SpecOption = Annotated[list[str] | None, typer.Option("--batch-spec", help="A batch such as 8q1s4k; may be repeated.")]
EffortOption = Annotated[Literal["quick", "full"], typer.Option("--effort", help="quick: few runs; full: to the end.")]
TrialsOption = Annotated[int | None, typer.Option("--trials", min=1, help="Runs of candidates in all.")]
SecondsOption = Annotated[float | None, typer.Option("--budget-seconds", min=1, help="Seconds in all.")]
StorageOption = Annotated[str | None, typer.Option("--storage", help="SQLAlchemy URL; default sqlite in --out.")]
StudyOption = Annotated[str, typer.Option("--study", help="Prefix of the studies' names.")]
ResumeOption = Annotated[bool, typer.Option("--resume", help="Go on with studies that exist.")]
WorkerOption = Annotated[bool, typer.Option("--worker", help="Share the studies with other workers.")]
PlanOption = Annotated[bool, typer.Option("--plan-only", help="Say what would be run and how long it takes.")]
OutOption = Annotated[str, typer.Option("--out", help="Folder for configurations, records and the study.")]
BackendOption = Annotated[list[str] | None, typer.Option("--backend", help="Only this backend; may be repeated.")]
DtypeOption = Annotated[
    Literal["auto", "bf16", "fp16", "fp32"], typer.Option("--dtype", help="auto: the model's; on a CPU by measurement.")
]


def tune(
    model: ModelOption,
    device: DeviceOption = None,
    batch_spec: SpecOption = None,
    backend: BackendOption = None,
    effort: EffortOption = "quick",
    trials: TrialsOption = None,
    budget_seconds: SecondsOption = None,
    storage: StorageOption = None,
    study: StudyOption = "attnroof",
    resume: ResumeOption = False,
    worker: WorkerOption = False,
    plan_only: PlanOption = False,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Draws inputs, order and samples.")] = 0,
    out: OutOption = "results",
    tp: TpOption = 1,
    page_size: PageSizeOption = 1,
    kv_cache_dtype: KvDtypeOption = "auto",
    dtype: DtypeOption = "auto",
    as_json: JsonOption = False,
) -> None:
    """Run the real backends where the model is unsure, and save what wins."""
    from pathlib import Path

    from cli.all_devices import run_workers
    from cli.progress import progress
    from cli.tuned_table import plan_json, plan_table, result_json
    from executors.isolated import IsolatedMeasurer, WorkerFailed
    from tuner.budget import Budget
    from tuner.events import Note
    from tuner.job import Asked, prepare_job
    from tuner.plan import plan_run
    from tuner.presence import presence
    from tuner.setup import Options, device_profile, first_device, make_provenance
    from tuner.store import open_store
    from tuner.tune import NothingRuns, check_folder, check_new
    from tuner.tune import tune as run

    budget = Budget(trials, budget_seconds)
    check_input(model, batch_spec or [], backend or [])
    device = device or first_device()
    options = Options(device, Path(out), storage, study, effort, seed, worker=worker, dry=plan_only)
    if storage and not plan_only:
        open_store(storage, wait=worker).close()
    if device == "all":
        end_all(run_workers(sys.argv[1:], trials))
        return
    asked = Asked(model, tuple(batch_spec or ()), tp, page_size, kv_cache_dtype, dtype)
    if not plan_only:
        check_folder(options.out)
    with (
        presence(options.storage_url, study, shared=worker),
        progress() as observe,
        IsolatedMeasurer(device, backend or None, until=budget.until) as measurer,
    ):
        profile = device_profile(device, lambda text: observe(Note(text)))
        job = prepare_job(asked, options, measurer, profile, observe)
        if plan_only:
            plan = plan_run(job.request, job.tools)
        else:
            if not (resume or worker):
                check_new(job.request, job.tools)
            provenance = make_provenance(options, measurer.environment(), command_line(), job.model, tp)
            try:
                result = run(job.request, job.tools, budget, options.out, provenance)
            except NothingRuns as error:
                raise AnswerIsNo(str(error)) from None
            except WorkerFailed as error:
                raise WrongInput(f"{error}; what was measured is kept: go on with --resume") from None
    if plan_only:
        write_json(plan_json(plan)) if as_json else print_table(plan_table(plan))
    elif as_json:
        write_json(result_json(result, device))
    else:
        show(result, device)


def check_input(model: str, specs: list[str], backends: list[str]) -> None:
    """Refuse a model, batch or backend that cannot be read before the device is opened and calibrated."""
    from costmodel import load_model, parse_batch_spec
    from executors.registry import get_backend

    load_model(model)
    for spec in specs:
        parse_batch_spec(spec)
    for name in backends:
        get_backend(name)


def end_all(code: int) -> None:
    """End as the worst of the workers did."""
    if code:
        raise typer.Exit(code)


def command_line() -> str:
    """The command as it was typed."""
    import shlex

    return shlex.join(["attnroof", *sys.argv[1:]])


def show(result: "Result", device: str) -> None:
    """Print the table, the files and the commands that use them."""
    from cli.tuned_table import commands, summary, tuned_table

    print_table(tuned_table(result.rows))
    console = stdout_console()
    for line in summary(result):
        console.print(line, markup=False, soft_wrap=True)
    for path in result.files:
        console.print(f"saved {path}", markup=False, soft_wrap=True)
    console.print("use it:")
    for command in commands(result, device):
        console.print(f"  {command}", markup=False, soft_wrap=True)
