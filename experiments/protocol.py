"""Write the stored development pools and splits of Scene15 and LabelMe.

python -m experiments.protocol

Writes src/supdocnade/paper/protocols/. The same files always give the same protocol; running it
again changes nothing. Both data sets are needed, since they share pictures.
"""

from collections import Counter

import numpy as np

from experiments.data import data_folder
from supdocnade.paper.data_sets import read_photo_set
from supdocnade.paper.protocol import STORED, make_protocols, write_protocol
from supdocnade.run_options import RunOptions


def main() -> None:
    photo_sets = {name: read_photo_set(name, data_folder(name)) for name in ("scene15", "labelme")}
    protocols = make_protocols(photo_sets, options=RunOptions(n_jobs=-1))
    pictures = {name: set(each.picture_B.tolist()) for name, each in protocols.items()}
    both = pictures["scene15"] & pictures["labelme"]
    for name, protocol in protocols.items():
        photos = photo_sets[name]
        write_protocol(STORED / f"{name}.json", photos, protocol)
        sizes = Counter(protocol.picture_B.tolist())
        copies = sum(size for size in sizes.values() if size > 1)
        shared = int(np.isin(protocol.picture_B, list(both)).sum())
        pool = Counter(np.array(photos.labels)[protocol.pool_B].tolist())
        print(
            f"{name}: {len(photos)} photographs, {len(sizes)} pictures; {copies} photographs have "
            f"a near-duplicate, {shared} one in the other data set; "
            f"pool {sorted(set(pool.values()))} per class"
        )
        for split in range(protocol.n_splits):
            parts = protocol.parts(split)
            outside = int((~protocol.pool_B[parts.test]).sum())
            print(
                f"  split {split}: {len(parts.fit)} + {len(parts.held)} for training, "
                f"{len(parts.test)} for testing, {outside} of them outside the pool"
            )


if __name__ == "__main__":
    main()
