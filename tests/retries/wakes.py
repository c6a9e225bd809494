"""What a failure leaves behind, to be put back by a retry by hand."""

from __future__ import annotations

from tests.engine.definitions import Definition, on
from tests.retries.story import Story


async def attempts_of(story: Story, ids: dict[str, str]) -> dict[str, int]:
    return {key: (await story.task(id)).attempt for key, id in ids.items()}


async def end_all(story: Story, ids: dict[str, str]) -> None:
    """Run everything to its end; on the way and at the end the database agrees with itself."""
    await story.check_health()
    await story.finish(ids.values())
    await story.check_health()


async def two_failed_parents(story: Story, below: list[Definition]) -> dict[str, str]:
    """`left` and `right` failed; each has a child of its own, one held back by `gate`, and `both` needs the two."""
    ids = await story.run(
        story.job("gate"),
        story.job("left"),
        story.job("right"),
        # These hold their parents, which would be dead ends otherwise.
        story.job("hold-left", on("left", "always"), "gate"),
        story.job("hold-right", on("right", "always"), "gate"),
        story.job("only-left", "left"),
        story.job("only-right", "right"),
        story.job("both", "left", "right"),
        *below,
    )
    await story.fail_for_good(ids["left"])
    await story.fail_for_good(ids["right"])
    return ids
