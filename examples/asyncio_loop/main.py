"""An asyncio program that lets a Heddle engine order what its timers, sockets, files and arrays do."""

import argparse
import asyncio
import pathlib
import sys
import tempfile

import numpy as np

import heddle
from loop_ops import LoopOps

EPILOG = """\
At each tick of a clock a matrix is read from a file. A peer sends a line of numbers over a TCP socket on
loopback. Their product is computed by the engine and goes back to the peer as a line. The ops are tied
together by what they read and mutate alone:

  tick      mutates the clock                            a timer of the loop
  load      reads the clock, mutates file and matrix     a read of a file, in a thread of the loop's pool
  receive   reads and mutates the connection, mutates x  the loop reads the socket
  matmul    reads matrix and x, mutates y                a worker of the engine
  answer    reads y, reads and mutates the connection    the loop writes to the socket

So round 2's matrix is loaded while round 1's product is computed, and nobody had to write that down. The peer
checks every answer against plain Python, and the program ends with status 1 if one is wrong.

With --cut the peer hangs up: the op that reads the socket fails, what depends on it is skipped, and the error
arrives where the program waits.

The program runs with every scheduler: HEDDLE_SCHEDULER=naive, HEDDLE_SCHEDULER=fuzz:7.
"""

SIDE = 8  # rows and columns of the matrices
WORKERS = 1  # one is enough: it only computes, and work in the loop occupies no worker


def matrix(round: int) -> np.ndarray:
    """The matrix of a round: small integers, so that f32 has every product exactly."""
    return (np.arange(SIDE * SIDE, dtype=np.float32).reshape(SIDE, SIDE) + round) % 7


def to_line(values: list[float]) -> bytes:
    return (" ".join(map(str, values)) + "\n").encode()


def from_line(line: bytes) -> list[float]:
    return [float(word) for word in line.split()]


class Peer:
    """The other end of the connection, without an engine: sends requests, and checks the answers."""

    def __init__(self, rounds: int, cut: int | None) -> None:
        self.rounds, self.cut = rounds, cut
        self.right = 0

    async def run(self, port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for round in range(self.rounds):
            if round == self.cut:
                break
            question = [float((round * 3 + i) % 5) for i in range(SIDE)]
            writer.write(to_line(question))
            answer = from_line(await reader.readline())
            rows = matrix(round).tolist()
            self.right += answer == [sum(a * b for a, b in zip(row, question, strict=True)) for row in rows]
        writer.close()


class Pipeline:
    """Pushes the ops of all rounds. Its methods without `async` run outside the loop's thread."""

    def __init__(
        self, ops: LoopOps, engine: heddle.Engine, connection, path: pathlib.Path, tick: float
    ) -> None:
        self.ops, self.engine, self.path, self.tick_seconds = ops, engine, path, tick
        self.reader, self.writer = connection
        self.clock, self.file, self.connection = engine.new_var(), engine.new_var(), engine.new_var()

    async def _tick(self) -> None:
        await asyncio.sleep(self.tick_seconds)

    async def _load(self, round: int, to: np.ndarray) -> None:
        values = await asyncio.to_thread(
            np.fromfile, self.path, np.float32, to.size, offset=round * to.nbytes
        )
        to[:] = values.reshape(to.shape)

    async def _receive(self, to: np.ndarray) -> None:
        line = await self.reader.readline()
        if not line.endswith(b"\n"):
            raise ConnectionError("the peer has hung up")
        to[:] = from_line(line)

    async def _answer(self, values: np.ndarray) -> None:
        self.writer.write(to_line(values.tolist()))
        await self.writer.drain()

    def push_round(self, round: int) -> heddle.NDArray:
        """Returns the answer, which is not computed yet."""
        weight, x = heddle.empty((SIDE, SIDE)), heddle.empty(SIDE)
        self.ops.push(self._tick, mutate=self.clock, name="tick")
        self.ops.push(
            lambda: self._load(round, np.asarray(weight)),
            read=self.clock,
            mutate=[self.file, weight],
            name="load",
        )
        # Receive and answer also read the connection, so both are skipped once it has failed.
        connection = self.connection
        self.ops.push(
            lambda: self._receive(np.asarray(x)), read=connection, mutate=[connection, x], name="receive"
        )
        y = weight @ x
        self.ops.push(
            lambda: self._answer(np.asarray(y)), read=[y, connection], mutate=connection, name="answer"
        )
        return y

    def run(self, rounds: int) -> float:
        """The sum of all answers. Blocks its thread, not the loop's."""
        with self.engine:
            total = heddle.zeros(SIDE)
            for round in range(rounds):
                total += self.push_round(round)
            self.engine.wait(self.connection)
            return float(total.sum())


async def accept_one(peer: Peer) -> tuple[asyncio.Task[None], asyncio.StreamReader, asyncio.StreamWriter]:
    """Starts the peer and takes its connection."""
    accepted: asyncio.Future[tuple[asyncio.StreamReader, asyncio.StreamWriter]]
    accepted = asyncio.get_running_loop().create_future()
    server = await asyncio.start_server(lambda *connection: accepted.set_result(connection), "127.0.0.1", 0)
    task = asyncio.create_task(peer.run(server.sockets[0].getsockname()[1]))
    reader, writer = await accepted
    server.close()
    return task, reader, writer


async def main(options: argparse.Namespace, path: pathlib.Path) -> int:
    np.stack([matrix(round) for round in range(options.rounds)]).tofile(path)
    peer = Peer(options.rounds, options.cut)
    task, reader, writer = await accept_one(peer)
    engine = heddle.Engine(workers=WORKERS)
    ops = LoopOps(engine, asyncio.get_running_loop())
    pipeline = Pipeline(ops, engine, (reader, writer), path, options.tick / 1000)
    try:
        total = await asyncio.to_thread(pipeline.run, options.rounds)
        await task
    except OSError as error:
        print(f"asyncio_loop: {error}", *getattr(error, "__notes__", []), file=sys.stderr)
        return 1
    finally:
        writer.close()
    print(f"{peer.right} of {options.rounds} answers are right; they add up to {total:g}")
    return 0 if peer.right == options.rounds else 1


def positive(text: str) -> int:
    if (value := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"{value} is too few")
    return value


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="asyncio_loop",
        description=__doc__,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--rounds", type=positive, default=20, help="questions that the peer asks (default %(default)s)"
    )
    parser.add_argument(
        "--tick", type=float, default=2, metavar="MS", help="milliseconds a tick (default %(default)s)"
    )
    parser.add_argument(
        "--cut", type=int, metavar="ROUND", help="the peer hangs up before this round (from 0 on)"
    )
    with tempfile.TemporaryDirectory() as folder:
        status = asyncio.run(main(parser.parse_args(), pathlib.Path(folder, "matrices")))
    sys.exit(status)
