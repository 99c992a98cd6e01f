"""The machines of "Skeap & Seap", as the paper has them: no cluster runs them, the laboratory does.

`overlay`: the linearized de Bruijn network, with joins and leaves. `select`: KSelect, and
distributed sorting. `skeap`, `seap`: batches, the anchor, and phases. They live as the machines of
the product do: they know no clock, no disk and no socket.
"""
