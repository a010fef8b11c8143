"""What a nest does, as relations: a walk over its operations, with integer sets and bit-vectors as values."""
