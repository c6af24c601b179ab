"""The parts of the note: each module turns evidence into display strings for one or two sections."""
