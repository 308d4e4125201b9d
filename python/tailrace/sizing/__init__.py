"""The size of cluster that a label join needs, and its first limit: `tailrace size`, and `size` from Python.

    from tailrace.sizing import Load, size

    sized = size(Load(left=3.3e6, right=1.7e6, left_bytes=200, right_bytes=200, after=86_400))
    print(sized.cores, sized.state.local_bytes, sized.breaks_first)

The numbers are calculated from measurements (`tailrace.sizing.constants`) on small machines. They are meant
for the question whether something is near a limit, and not for a quotation.
"""

from tailrace.sizing.constants import Constant
from tailrace.sizing.limits import Limit
from tailrace.sizing.load import Load, Prices
from tailrace.sizing.needs import Needs
from tailrace.sizing.sized import Size, size
from tailrace.sizing.state import State
from tailrace.sizing.work import Batch, Cores

__all__ = ["Batch", "Constant", "Cores", "Limit", "Load", "Needs", "Prices", "Size", "State", "size"]
