"""The timing of `costmodel.timing` for many plans of two runs of equal jobs each, as array arithmetic."""

import numpy as np

from costmodel.machine import Machine
from costmodel.parameters import Parameters
from costmodel.tiles import spread
from costmodel.timing import job_cost
from costmodel.uniform import Floats, Ints, Uniform, ceil_div


def time_uniform(plans: Uniform, traffic: tuple[Ints, Floats], machine: Machine, p: Parameters) -> Floats:
    """Give seconds of each plan.

    Args:
        plans: The plans.
        traffic: Requests and DRAM bytes of each batch.
        machine: The device.
        p: Parameters of the kernel.
    """
    sample, (requests, dram_bytes) = plans.sample, traffic
    slots = machine.sms * sample.slots_per_sm
    loads, widths = two_run_loads(plans, slots, job_cost(sample, p))
    return (
        p.floor_seconds
        + _tiles(plans, (loads, widths), dram_bytes, (machine, p))
        + _merge(plans, p)
        + requests * p.request_seconds
        + plans.empty_ctas / slots * p.empty_cta_seconds
        + sample.extra_seconds * p.extra_fraction
    )


def two_run_loads(plans: Uniform, slots: int, job_tiles: float) -> tuple[Floats, Floats]:
    """List-schedule two runs of equal jobs in closed form.

    After the first run `low` slots are free one job earlier than the `high` ones. Jobs of the second run go to the
    low slots alone until those have caught up, then to both in turn.

    Returns:
        Loads in tiles, ascending, and slots that end with them, `[batches, 4]` each.
    """
    first, second = plans.full_tiles + job_tiles, plans.rest_tiles + job_tiles
    waves, high = np.divmod(plans.full_jobs, slots)
    low = slots - high
    start_low, start_high = waves * first, (waves + 1) * first
    alone = np.where(high > 0, np.ceil((start_high - start_low) / second).astype(np.int64), 0)
    before = np.minimum(plans.rest_jobs, alone * low)
    after = plans.rest_jobs - before
    rounds, left = np.divmod(after, slots)
    to_high = np.where(high > 0, np.minimum(left, high), 0)
    low_rounds, low_extra = np.divmod(before, low)
    low_extra = low_extra + (left - to_high)
    loads = np.stack(
        [
            start_low + (low_rounds + rounds) * second,
            start_low + (low_rounds + rounds + 1) * second,
            start_high + rounds * second,
            start_high + (rounds + 1) * second,
        ],
        axis=1,
    )
    widths = np.stack([low - low_extra, low_extra, high - to_high, to_high], axis=1).astype(np.float64)
    widths = np.where(loads > 0, widths, 0.0)
    order = np.argsort(loads, axis=1)
    return np.take_along_axis(loads, order, axis=1), np.take_along_axis(widths, order, axis=1)


def _tiles(
    plans: Uniform, schedule: tuple[Floats, Floats], dram_bytes: Floats, where: tuple[Machine, Parameters]
) -> Floats:
    machine, p = where
    loads, widths = schedule
    tile, factor, j, o = plans.sample.tile, p.factor(plans.sample.kernel), p.join, p.overlap
    far = 1 + p.far_fraction * spread(dram_bytes, machine.l2_bytes)
    own = factor * far * (p.tile_seconds + tile.pages * p.page_seconds + tile.bytes / p.cta_bytes_per_s)
    matrix, exps = factor * tile.matrix_seconds / p.matrix_fraction, factor * tile.exp_seconds / p.exp_fraction
    stream = factor * far * (tile.pages * p.page_seconds + tile.bytes / p.sm_bytes_per_s)
    per_sm_load = (stream**j + (matrix**o + exps**o) ** (j / o))[:, None]
    jobs = plans.full_jobs + plans.rest_jobs
    tiles = plans.full_jobs * plans.full_tiles + plans.rest_jobs * plans.rest_tiles
    fixed = job_cost(plans.sample, p)
    longest = np.where(widths > 0, loads, 0.0).max(axis=1)
    exposed = np.minimum(fixed / longest, 1.0)
    waves = ceil_div(jobs, machine.sms * plans.sample.slots_per_sm)
    tile_bytes = dram_bytes / tiles + tile.pages * p.page_bytes
    dram = (1 - np.minimum(fixed * waves / longest, 1.0)) * tile_bytes / (machine.memory_bytes_per_s * p.dram_fraction)
    running = widths[:, ::-1].cumsum(axis=1)[:, ::-1]
    per_sm = ceil_div(running.astype(np.int64), machine.sms)
    waiting = running * dram[:, None] + (exposed * own)[:, None]
    rate = (own[:, None] ** j + per_sm**j * per_sm_load + waiting**j) ** (1 / j)
    steps = np.diff(loads, axis=1, prepend=0.0)
    return np.where(running > 0, steps * rate, 0.0).sum(axis=1)


def _merge(plans: Uniform, p: Parameters) -> Floats:
    traffic = 2 * plans.partial_rows * plans.sample.partial_row_bytes / p.merge_bytes_per_s
    walk = (plans.merge_splits - 1) * p.merge_split_seconds + plans.merge_slots * p.merge_slot_seconds
    seconds = p.merge_seconds + walk + plans.merged_rows * p.merge_row_seconds + traffic
    return np.where(plans.merge_launched, seconds, 0.0)
