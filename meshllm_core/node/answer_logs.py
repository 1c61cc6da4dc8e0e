"""Answers what clients ask about the logs of this node and its engines."""

import asyncio

from meshllm_core.api.schema_logs import LogPiece, LogRow, LogsAnswer, LogsArguments, ReadLogArguments
from meshllm_core.log import mask
from meshllm_core.log_files import engine_name, find_log, list_logs, read_piece
from meshllm_core.paths import Paths


async def answer_logs(paths: Paths, _: LogsArguments) -> LogsAnswer:
    """Which logs there are."""
    found = await asyncio.to_thread(list_logs, paths)
    return LogsAnswer(
        logs=tuple(
            LogRow(name=log.name, model=engine_name(log.name), bytes=log.size, changed_at=log.changed_at)
            for log in found
        )
    )


async def answer_read_log(paths: Paths, asked: ReadLogArguments) -> LogPiece:
    """A piece of one of them. Raises InvalidRequest, NodeError."""
    return await asyncio.to_thread(_read, paths, asked)


def _read(paths: Paths, asked: ReadLogArguments) -> LogPiece:
    piece = read_piece(find_log(paths, asked.name).path, asked.after, asked.file)
    return LogPiece(
        name=asked.name,
        text=mask(piece.data.decode("utf-8", "replace")),
        file=piece.file,
        start=piece.start,
        end=piece.end,
        size=piece.size,
        fresh=piece.fresh,
    )
