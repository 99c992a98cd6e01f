"""The pool's laboratory: Johnson's experiments, with the pool's own machines as their subject.

The paper's setting: N producers with f buffers each make objects, each in 1/lambda ticks when it is
not held up; M consumers use one in 1/mu ticks; a message is r ticks on its way. The load is
l = M mu / (N lambda). `options` says what can be chosen, `machine` runs it with the machines that
the product runs (`cast` says which), `measures` what comes of it. `models` are the paper's
three models, with their errors mended.
"""
