"""Listeners that are interrupted: what a node told them is in their hands, or it is asked again."""

import snowmelt
from ordinary.interrupting import Interrupted
from snowmelt.cli.local import LocalNode
from snowmelt.client.multicast import face as multicast
from snowmelt.client.multicast import steps as multicast_steps

STEPS = multicast, multicast_steps


def test_a_listener_that_is_interrupted_at_any_line_misses_nothing(
    node: LocalNode, name: str
) -> None:
    heard, line, done = [], 0, False
    with snowmelt.connect(node.url) as cluster:
        topic = cluster.multicast(name)
        with topic.subscribe(timeout=3) as subscription:
            while not done:
                line += 1
                topic.publish_many([b"%d" % line, b"and"])
                try:
                    # Within `next` of one that came Python itself looks for no signal.
                    with Interrupted(line, STEPS, without="next") as interrupted:
                        heard.append(next(subscription).body)
                    done = interrupted.left > 0
                except KeyboardInterrupt:
                    heard.append(next(subscription).body)
                heard.append(next(subscription).body)
            assert subscription.missed == 0
    assert line > 10, "there is more than this to interrupt"
    assert heard == [body for one in range(1, line + 1) for body in (b"%d" % one, b"and")]
