"""The papers' own experiments and models, run again, with what came out otherwise than printed.

`durability`: how likely an item is lost when nodes fail and are replaced. `order`: how far out of
order items come when dequeues fail. `scale`: how long operations take as clients and nodes grow.
All three from Blizzard (Levy, Suskin, Goodwin 2009), section 3. `spark`: exact ranks of a column of
Spark, by KSelect of "Skeap & Seap", section 4.
"""
