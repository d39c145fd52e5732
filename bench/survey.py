"""How fast the survey's server answers when five annotators rate at once, at the paper's scale.

    python bench/survey.py

200 items x 9 systems (the reference among them) x 5 annotators, two scales: 9,000 texts, 18,000
ratings. Each annotator sends a rating as soon as the last one is acknowledged, which people do not.
An answer is timed from the request to the last byte: the rating is on disk, the next text is here.
Goal: 95 of 100 within 100 ms.
"""

import http.client
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
from pathlib import Path

import numpy as np

from augless import survey
from augless.survey import pages

ITEMS, SYSTEMS, ANNOTATORS = 200, 8, 5
GOAL = 0.1


def lines(seed: int, count: int) -> list[str]:
    chance = random.Random(seed)
    words = [f"word{k}" for k in range(2_000)]
    return [" ".join(chance.choices(words, k=chance.randint(5, 20))) for _ in range(count)]


def designed() -> survey.Design:
    systems = {f"system {k}": lines(k, 1_000) for k in range(SYSTEMS)}
    return survey.design(systems, lines(100, 1_000), lines(200, 1_000), survey.Options(items=ITEMS))


def annotate(link: str, order: int, times: list[float]) -> None:
    parts = urllib.parse.urlsplit(link)
    headers = {"Authorization": f"Bearer {parts.path.rpartition('/')[2]}"}
    headers["Content-Type"] = "application/json"
    line = http.client.HTTPConnection(parts.netloc, timeout=60)
    for place in range(order):
        given = {"place": place, "revision": 1, "scores": [3, 4], "seconds": 4.2}
        began = time.perf_counter()
        line.request("POST", "/api/answers", json.dumps(given), headers)
        answer = line.getresponse()
        answer.read()
        times.append(time.perf_counter() - began)
        assert answer.status == 200
    line.close()


def main() -> None:
    began = time.perf_counter()
    design = designed()
    with tempfile.TemporaryDirectory() as folder:
        kept = survey.Survey.create(Path(folder) / "survey", design)
        print(f"made in {time.perf_counter() - began:.2f} s")
        command = ["survey", "serve", str(kept.folder), "--port", "0", "--json"]
        with subprocess.Popen(
            [sys.executable, "-m", "augless", *command], stdout=subprocess.PIPE, text=True
        ) as server:
            assert server.stdout is not None
            links = json.loads(server.stdout.readline())["links"]
            times: list[float] = []
            orders = [len(one.order) for one in design.annotators]
            crowd = [
                threading.Thread(target=annotate, args=(link, order, times))
                for link, order in zip(links.values(), orders, strict=True)
            ]
            began = time.perf_counter()
            for one in crowd:
                one.start()
            for one in crowd:
                one.join()
            spent = time.perf_counter() - began
            server.terminate()
        began = time.perf_counter()
        survey.tally(kept)
        print(f"counted in {time.perf_counter() - began:.1f} s")
    assert len(times) == ITEMS * (SYSTEMS + 1) * ANNOTATORS
    p50, p95, p99 = np.quantile(times, [0.5, 0.95, 0.99])
    print(f"{len(times):,} texts rated by {ANNOTATORS} at once, {len(times) / spent:.0f} a second")
    print(f"answer: median {1e3 * p50:.1f} ms, p95 {1e3 * p95:.1f} ms, p99 {1e3 * p99:.1f} ms")
    print(f"goal: p95 within {1e3 * GOAL:.0f} ms: {'met' if p95 <= GOAL else 'missed'}")
    size = len(pages.served())
    print(f"page: {size / 1e3:.1f} KB; goal: under 100 KB: {'met' if size < 1e5 else 'missed'}")


if __name__ == "__main__":
    main()
