"""A compressed model against its original: size, memory, FLOPs, time, and where it is slower."""

from tenfold.measurement.measuring import measure_folders
from tenfold.measurement.record import Measurement, from_dict, read_measurement, write_measurement
from tenfold.measurement.settings import Settings

__all__ = ["Measurement", "Settings", "from_dict", "measure_folders", "read_measurement", "write_measurement"]
