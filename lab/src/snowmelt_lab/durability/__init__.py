"""How likely an item is lost: Blizzard, section 3.2, exactly, beside two checks of it.

The model. A node fails in each second with the same chance, whatever happened before and whatever
other nodes do. An item lies on R nodes. Time is cut into windows of W seconds; what survives a
window is copied anew to R nodes at its end, so windows know nothing of each other. The item is lost
when all R fail within one window.

- `windows`: the model solved, by a formula.
- `trial`: the model acted out with dice, which knows nothing of the formula.
- `chain`: time not cut: copies fail when they will, and each is replaced after W on average.
- `paper`: what the paper says came out of its model, and what does come out.
- `curves`, `picture`: loss over time, as a table and drawn.
"""
