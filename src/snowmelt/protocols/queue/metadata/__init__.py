"""Where queues are at home, as a node knows it: asked of the controller, and asked again.

Doors look here for whoever leads a queue; leaders and data nodes, for a term's home. It imports
`messages` and what is below, and knows neither the controller nor a leader.
"""
