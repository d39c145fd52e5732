"""One value that knows the ranks: alone, and in two processes over gloo."""

import os

import numpy as np
import pytest
import torch
from torch import multiprocessing

from augless import data, losses, models, polar, ranks, runs, training
from small_runs import SMALL, VOCABULARY, digits, new_run, term

PAIRS = digits(41, weight=np.linspace(0.5, 1.5, 41))  # the last batch of nine has five pairs
OBJECTIVES = {
    "law": [term(weighting="uniform", normalise="running-mean")],
    "matched": [term(weighting="matched"), term("wasserstein", scale=0.3)],
    "staged tokens": [
        training.Term(
            loss=losses.CrossEntropy(per="token"),
            weighting=polar.Staged(first=polar.Falling(), after=150, normalise="running-mean"),
        )
    ],
}


def trained(objective, who, pairs=PAIRS, run=None, batch=9, **knobs):
    one = training.Trainer(
        models.MODELS["lstm"](**SMALL["lstm"], dropout=0.0).build(VOCABULARY, VOCABULARY, seed=1),
        OBJECTIVES[objective],
        training.Settings(
            batch=batch, epochs=2, log_every=2, metric="loss", precision="float64", accumulate=2
        ),
        pairs,
        seed=1,
        device=torch.device("cpu"),
        ranks=who,
    )
    scores = iter([2.0, 1.0])
    finished = training.fit(
        one, run, validate=lambda model: {"loss": next(scores)}, higher_is_better=False, **knobs
    )
    return torch.cat([p.detach().flatten() for p in one.parameters.values()]), one, finished


def rank_main(rank, count, folder):
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"  # whatever the machine calls itself
    address = f"file://{folder}/rendezvous"
    torch.distributed.init_process_group("gloo", init_method=address, rank=rank, world_size=count)
    who = ranks.here()
    assert who == ranks.Ranks(rank, count)
    assert who.sum(torch.tensor([1.0, rank])).tolist() == [2.0, 1.0]
    assert who.any(rank == 1) and not who.any(False)
    assert [v.tolist() for v in who.gather(torch.arange(rank + 1.0))] == [[0.0], [0.0, 1.0]]
    for name in OBJECTIVES:
        run = new_run(f"{folder}/{name}") if who.first else None
        who.any(False)  # the others wait for its folder
        run = run or runs.Run.open(f"{folder}/{name}")
        # Only the second rank is asked to stop: both do, and both go on.
        halts = iter([False, rank == 1])
        _, one, finished = trained(name, who, run=run, stop=halts.__next__)
        assert not finished and one.at.step == 2
        weights, *_ = trained(name, who, run=run)
        torch.save(weights, f"{folder}/{name}-{rank}.pt")
    with pytest.raises(training.NotFinite, match="not finite at step 1"):
        poisoned(who)
    torch.distributed.destroy_process_group()


def poisoned(who):
    """Take a step on a batch of two pairs, of which the first rank's is not finite."""
    one = training.Trainer(
        models.MODELS["lstm"](**SMALL["lstm"]).build(VOCABULARY, VOCABULARY, seed=1),
        OBJECTIVES["matched"],
        training.Settings(),
        digits(2),
        seed=1,
        device=torch.device("cpu"),
        ranks=who,
    )
    if who.first:
        with torch.no_grad():
            next(iter(one.parameters.values())).fill_(torch.nan)
    one.step(np.arange(2))


def test_two_ranks_take_the_same_steps_as_one_and_stop_and_fail_together(tmp_path):
    multiprocessing.spawn(rank_main, (2, str(tmp_path)), nprocs=2)
    for objective in OBJECTIVES:
        alone, *_ = trained(objective, ranks.ALONE, run=new_run(tmp_path / f"{objective}-alone"))
        for rank in (0, 1):
            together = torch.load(tmp_path / f"{objective}-{rank}.pt", weights_only=True)
            torch.testing.assert_close(together, alone, rtol=0, atol=1e-10)
        mine, theirs = (
            runs.Run.open(tmp_path / folder).metrics()
            for folder in (f"{objective}-alone", objective)
        )
        for ours, other in zip(mine, theirs, strict=True):
            for a, b in zip(map(vars, ours.terms), map(vars, other.terms), strict=True):
                # Before a mean loss is known a histogram is in units of each rank's own.
                for name in a.keys() - {"histogram"}:
                    assert a[name] == pytest.approx(b[name], abs=1e-9), name


def test_alone_everything_is_as_it_is():
    values = torch.tensor([1.0, 2.0])
    assert ranks.here() == ranks.ALONE and ranks.ALONE.first
    assert ranks.ALONE.sum(values) is values and ranks.ALONE.gather(values)[0] is values
    assert ranks.ALONE.any(True) and not ranks.ALONE.any(False)
    assert ranks.ALONE.share(np.arange(3)).tolist() == [0, 1, 2]


def test_rows_are_shared_in_turns_and_only_the_first_writes():
    shares = [ranks.Ranks(r, 3).share(np.arange(7)).tolist() for r in range(3)]
    assert shares == [[0, 3, 6], [1, 4], [2, 5]]
    assert [ranks.Ranks(r, 3).first for r in range(3)] == [True, False, False]


@pytest.mark.parametrize(("rank", "count"), [(-1, 2), (2, 2), (0, 0)])
def test_a_rank_that_is_none_of_them_is_refused(rank, count):
    with pytest.raises(ValueError, match=f"rank {rank} is none of {count} ranks"):
        ranks.Ranks(rank, count)


def test_every_rank_draws_its_own_dropout():
    batch = data.collate(PAIRS, np.arange(4))
    hidden = []
    for who in (ranks.Ranks(0, 2), ranks.Ranks(1, 2), ranks.Ranks(0, 2)):
        model = models.MODELS["lstm"](**SMALL["lstm"], dropout=0.5)
        one = training.Trainer(
            model.build(VOCABULARY, VOCABULARY, seed=1),
            [term()],
            training.Settings(),
            PAIRS,
            seed=1,
            device=torch.device("cpu"),
            ranks=who,
        )
        hidden.append(one.output(batch, 0).hidden)
    assert torch.equal(hidden[0], hidden[2]) and not torch.equal(hidden[0], hidden[1])
