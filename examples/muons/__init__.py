"""Events with columns of lists, as particle physics keeps them, into a queue and back."""
