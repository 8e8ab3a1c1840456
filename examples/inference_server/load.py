"""Loads the server at rates that do not depend on its answers, and says how long these took."""

import argparse
import asyncio
import dataclasses
import random
import statistics
import sys
import time
from urllib.parse import urlsplit

EPILOG = """\
    python load.py --rates 50 200 400 800 --overload --picture load.png

Requests come by a Poisson process (an open loop): one whose predecessors are still unanswered is sent all the
same. Its latency counts from the moment at which it should have been sent. So a server that stalls is charged
for every request that came meanwhile.

The rate that the server carries is the highest one of the sweep with at most 1 % refused. --overload then
offers twice as much and compares the p99 of accepted requests with that of the lowest rate. It sends pictures
of random bytes.

Columns: requests a second; share refused; quantiles of the latency of answered requests and of refusals, in
ms; pictures a batch; the server's memory in MB afterwards; `sent late`, the p99 of how late this program
itself was, in ms. If that comes near the latencies, they are those of this program.
"""
MOST_REFUSED = 0.01
PIXELS = 784


@dataclasses.dataclass
class Answer:
    status: int  # HTTP status; 0: no answer
    latency: float  # in seconds, as sent_late
    sent_late: float


@dataclasses.dataclass
class Row:
    """The results of one rate. Times in ms."""

    rate: float
    answered: float = 0.0  # answered requests per second
    refused: float = 0.0  # share of the requests that were refused
    other: int = 0  # share of the requests neither answered nor refused
    p50: float = 0.0
    p99: float = 0.0
    p999: float = 0.0
    refused_p99: float = 0.0
    batch: float = 0.0
    memory: float = 0.0  # the server's memory in MB
    sent_late: float = 0.0


class Client:
    """An HTTP client that keeps its connections open: as many as requests were in flight at once."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.host, self.port = parts.hostname or "127.0.0.1", parts.port or 80
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def ask(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        """The answer's status and body; raises ConnectionError if there is no answer."""
        head = f"{method} {path} HTTP/1.1\r\nHost: {self.host}\r\nContent-Length: {len(body)}\r\n\r\n"
        reader, writer = (
            self._idle.pop() if self._idle else await asyncio.open_connection(self.host, self.port)
        )
        try:
            writer.write(head.encode() + body)
            lines = (await reader.readuntil(b"\r\n\r\n")).lower().split(b"\r\n")
            length = next(int(line[15:]) for line in lines if line.startswith(b"content-length:"))
            answer = await reader.readexactly(length)
        except BaseException as error:
            writer.close()
            if isinstance(error, asyncio.IncompleteReadError):
                raise ConnectionError("the server has hung up") from error
            raise
        self._idle.append((reader, writer))
        return int(lines[0].split()[1]), answer

    async def metrics(self) -> dict[str, float]:
        _, text = await self.ask("GET", "/metrics")
        lines = [line.split() for line in text.decode().splitlines() if not line.startswith("#")]
        return {name: float(value) for name, value in lines}


def arrivals(rate: float, seconds: float, generator: random.Random) -> list[float]:
    """Arrival times in seconds from the start: a Poisson process with that rate."""
    times, now = [], generator.expovariate(rate)
    while now < seconds:
        times.append(now)
        now += generator.expovariate(rate)
    return times


async def offer(client: Client, times: list[float], generator: random.Random) -> list[Answer]:
    """Sends one request at each of the times, and waits for all answers."""
    loop = asyncio.get_running_loop()
    pictures = [generator.randbytes(PIXELS) for _ in range(64)]
    tasks: list[asyncio.Task[Answer]] = []

    async def ask(due: float) -> Answer:
        sent_late = time.perf_counter() - due
        try:
            status, _ = await client.ask("POST", "/predict", pictures[len(tasks) % len(pictures)])
        except OSError:
            status = 0
        return Answer(status, time.perf_counter() - due, sent_late)

    def send(due: float) -> None:
        tasks.append(loop.create_task(ask(due)))

    # Paces on a thread of its own: time.sleep is exact, and sleeps of a loop are rounded up to a millisecond.
    def pace() -> None:
        for due in times:
            if (pause := start + due - time.perf_counter()) > 0:
                time.sleep(pause)
            loop.call_soon_threadsafe(send, start + due)

    start = time.perf_counter()
    await asyncio.to_thread(pace)
    return list(await asyncio.gather(*tasks))


def quantile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))] if values else 0.0


async def measure(client: Client, rate: float, seconds: float, seed: int) -> Row:
    generator = random.Random(f"{seed} {rate}")
    before = await client.metrics()
    answers = await offer(client, arrivals(rate, seconds, generator), generator)
    after = await client.metrics()
    if not answers:
        raise ValueError(f"no request came within {seconds} s at {rate} a second; give it more --seconds")
    answered = [answer.latency * 1000 for answer in answers if answer.status == 200]
    refused = [answer.latency * 1000 for answer in answers if answer.status == 503]
    batches = after["inference_batch_size_count"] - before["inference_batch_size_count"]
    pictures = after["inference_batch_size_sum"] - before["inference_batch_size_sum"]
    return Row(
        rate=rate,
        answered=len(answered) / seconds,
        refused=len(refused) / len(answers),
        other=len(answers) - len(answered) - len(refused),
        p50=statistics.median(answered) if answered else 0.0,
        p99=quantile(answered, 0.99),
        p999=quantile(answered, 0.999),
        refused_p99=quantile(refused, 0.99),
        batch=pictures / max(1.0, batches),
        memory=after["process_resident_memory_bytes"] / 1e6,
        sent_late=quantile([answer.sent_late * 1000 for answer in answers], 0.99),
    )


COLUMNS = [
    "Offered/s",
    "Answered/s",
    "Refused",
    "Other",
    "p50",
    "p99",
    "p99.9",
    "p99 of refusals",
    "Batch",
    "MB",
]
COLUMNS += ["Sent late"]
HEAD = f"| {' | '.join(COLUMNS)} |\n|{'|'.join('-' * (len(name) + 2) for name in COLUMNS)}|"


def line(row: Row) -> str:
    cells = [f"{row.rate:.0f}", f"{row.answered:.0f}", f"{row.refused:.1%}", str(row.other)]
    cells += [
        f"{row.p50:.2f}",
        f"{row.p99:.2f}",
        f"{row.p999:.2f}",
        f"{row.refused_p99:.2f}" if row.refused else "",
    ]
    cells += [f"{row.batch:.1f}", f"{row.memory:.1f}", f"{row.sent_late:.2f}"]
    return f"| {' | '.join(cell.ljust(len(name)) for cell, name in zip(cells, COLUMNS, strict=True))} |"


def verdict(lowest: Row, carried: Row, twice: Row) -> str:
    ratio = twice.p99 / lowest.p99
    return (
        f"It carries {carried.rate:.0f} a second. At {twice.rate:.0f}, accepted requests had a p99 of "
        f"{twice.p99:.2f} ms, {ratio:.1f} times that of {lowest.rate:.0f} a second; {twice.refused:.1%} were "
        f"refused, with a p99 of {twice.refused_p99:.2f} ms; memory {twice.memory - lowest.memory:+.1f} MB."
    )


def draw(rows: list[Row], path: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (above, below) = pyplot.subplots(2, 1, sharex=True, figsize=(7, 6), height_ratios=[2, 1])
    rates = [row.rate for row in rows]
    for name in ("p50", "p99", "p999"):
        above.plot(
            rates, [getattr(row, name) for row in rows], marker="o", label=name.replace("p999", "p99.9")
        )
    above.set_yscale("log")
    above.set_ylabel("latency of answered requests, ms")
    above.legend()
    below.plot(rates, [row.refused * 100 for row in rows], marker="o", color="tab:red")
    below.set_ylabel("refused, %")
    below.set_xlabel("offered requests a second")
    for axes in (above, below):
        axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(path, dpi=120)


async def run(options: argparse.Namespace) -> list[Row]:
    client = Client(options.url)
    rates = sorted(options.rates)
    await measure(client, rates[0], min(2.0, options.seconds), options.seed + 1)  # a warm-up, not counted
    print(HEAD, flush=True)
    rows = []
    for rate in rates:
        rows.append(await measure(client, rate, options.seconds, options.seed))
        print(line(rows[-1]), flush=True)
    carried = [row for row in rows if row.refused <= MOST_REFUSED and not row.other]
    if options.overload and len(carried) in (0, len(rows)):
        print(f"\nNo overload: it carries {'all' if carried else 'none'} of these rates. Offer others.")
    elif options.overload:
        rows.append(await measure(client, 2 * carried[-1].rate, options.seconds, options.seed))
        print(f"{line(rows[-1])}\n\n{verdict(rows[0], carried[-1], rows[-1])}")
    return sorted(rows, key=lambda row: row.rate)


def positive(text: str) -> float:
    if not (value := float(text)) > 0:
        raise argparse.ArgumentTypeError(f"{text} is not positive")
    return value


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="load.py",
        description=__doc__,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--url", default="http://127.0.0.1:8080", help="(default %(default)s)")
    add(
        "--rates",
        type=positive,
        nargs="+",
        default=[50, 100, 200, 400, 800],
        help="a second (default %(default)s)",
    )
    add("--seconds", type=positive, default=10, help="of each rate (default %(default)s)")
    add("--seed", type=int, default=1, help="(default %(default)s)")
    add("--overload", action="store_true", help="also twice the rate that it carries")
    add("--table", metavar="FILE", help="writes the table, too")
    add("--picture", metavar="FILE", help="a .png or .svg; needs matplotlib")
    options = parser.parse_args()
    try:
        rows = asyncio.run(run(options))
    except (OSError, ValueError) as error:
        print(f"load.py: {options.url}: {error}", file=sys.stderr)
        return 1
    if options.table:
        with open(options.table, "w", encoding="utf-8") as file:
            file.write("\n".join([HEAD, *map(line, rows)]) + "\n")
    if options.picture:
        try:
            draw(rows, options.picture)
        except ImportError as error:
            print(f"load.py: no picture: {error}; pip install matplotlib", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
