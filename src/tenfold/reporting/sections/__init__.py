"""The parts of a page, one file each: from runs to HTML, or None where there is nothing to say."""
