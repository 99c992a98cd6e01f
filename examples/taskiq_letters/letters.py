"""Letters by Taskiq: its tasks wait in Snowmelt, and their results are there for a day."""

import asyncio
import os
import sys

from snowmelt_doors.taskiq import SnowmeltBroker, SnowmeltResultBackend

URL = os.environ.get("SNOWMELT_URL", "snowmelt://127.0.0.1:4410")
broker = SnowmeltBroker(URL).with_result_backend(SnowmeltResultBackend(URL))


@broker.task(task_name="post")
async def post(name: str) -> str:
    """Posts a letter."""
    await asyncio.sleep(0.01)
    return f"posted to {name}"


async def main(names: list[str]) -> None:
    """Asks for letters, and waits until they are posted."""
    await broker.startup()
    asked = [await post.kiq(one) for one in names]
    asked.append(await post.kicker().with_labels(delay=0.5).kiq("yourself"))
    for one in asked:
        result = await one.wait_result(timeout=60)
        print(result.return_value)
    await broker.shutdown()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
