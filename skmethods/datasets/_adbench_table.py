"""Facts about the ADBench data sets that ``fetch_adbench`` knows.

One entry: category/name, rows, columns, anomalies, and the SHA-256 of the file.
"""

from typing import NamedTuple

CATEGORIES = ("Classical", "CV_by_ResNet18", "CV_by_ViT", "NLP_by_BERT")

_TEXT = """
Classical/1_ALOI 49534 27 1508
    792d0b5bd1147bfc9574a1974f157b39fbd4cbed8ecd04cf983fd554498ed477
Classical/4_breastw 683 9 239
    4f37ce07dbc25ddad8178fdc6d664ab46d2d0000ee28c2787c3c7ff3c03ef9f6
Classical/6_cardio 1831 21 176
    bc5009bde6930b4d298b594f31b34485a9a17210cff0e8fb00a8c3068b885a2d
Classical/8_celeba 202599 39 4547
    1cadfdea14cd8d240eca715a70c09c88af8621d086a7478c63f602d97adef0b5
Classical/11_donors 619326 10 36710
    5824ec854465f2763b4bfe3da1ae9f25ed5433b5c6e265d42e37da4f82a58679
Classical/14_glass 214 7 9
    aa7a8db1d475ba01a10488af454bc15220a3d5951b010b03b7020567d8152cdc
Classical/16_http 567498 3 2211
    9d98710091551587f4740cfc851a6b064fff6319a337c2dc77ee6da4bcc2e02c
Classical/18_Ionosphere 351 32 126
    bca46cb0cfd1bf9ddef6cde5ad2215d54fb0189508d0d4c4eb98e788cad69001
Classical/20_letter 1600 32 100
    f986d3da80cf1fa2aea83a5ebe73b7d4800e0d4c01fdd1ae074b58d20f10d039
Classical/22_magic.gamma 19020 10 6688
    0be375984d7af9ea7a63b12206c240840d8b7daa3607021c5fb8756407dd86f1
Classical/24_mnist 7603 100 700
    be7706272325fdd3592c1be555ae1a82f916a2f8545f4f8cbaa548ab102cc44c
Classical/26_optdigits 5216 64 150
    60de17a375a278ba220a7849727d998aa02b5e2f9fd17732a004bba28de4656e
Classical/28_pendigits 6870 16 156
    c4936b89dcdad59d303020e492f763a0f54170080d787c77497609acbb9c2d79
Classical/30_satellite 6435 36 2036
    1f048f5686f1b8c16a227fdfa3c81a62cd9a92715714a6b24c69b1c5ad96b46e
Classical/32_shuttle 49097 9 3511
    26900b0f6be45d9ddb7a402c9b2f956ceda42d23a8ca4cf4406b8bc1352823d1
Classical/34_smtp 95156 3 30
    d2569fc9bc12115419e3f5b37d19921e10e6c26e5ad1e61064cfb0fbc402dfdd
Classical/37_Stamps 340 9 31
    99fe739447284f613fa54bf2dccdb51c5120175ce6260adec6dad77576c42509
Classical/39_vertebral 240 6 30
    0816286f92b96fe6867664a41a031ac7228dcfbf1a5feefe50ca3883b2e9073d
Classical/41_Waveform 3443 21 100
    6c9d867337ad1a2f8372c1d27f4c032f0401237e2041b7c45f00de8d319ff30f
Classical/43_WDBC 367 30 10
    78d4606a1ab516f5b60b00c196497f3bbd6bd5e4548fd04cf5f2475209b34b85
Classical/45_wine 129 13 10
    d5ad8965d92cc57122fe1e6572bb301adbaf795b3e166d187ae00a704d8f6e20
Classical/47_yeast 1484 8 507
    bbb15c873d78a4f6a589f46d0f75814595e2282d2ae7ce7779c750f276c3770d
CV_by_ResNet18/MVTec-AD_bottle 292 512 63
    9eb7a78f1f6ecfcd00391ea01fe06f998e3fb7b8e89a34c06d69786ee38a8059
CV_by_ResNet18/MVTec-AD_cable 374 512 92
    65f36182cf75ba1b2629af7bee3eec87ed9b050796e0b7c06493993e0ba4cee1
CV_by_ResNet18/MVTec-AD_grid 342 512 57
    376fe5d7568fb3c1b9056a03aef6c0c350476a11b4f4579e6b7d8f8e5405f837
CV_by_ResNet18/MVTec-AD_zipper 391 512 119
    d60591ab34dced348b32574c4c0ff680068bbf5017d06d2bc5f9b15521f38bb8
CV_by_ResNet18/SVHN_0 5208 512 260
    3526704c19ae4c62337a37f1f9294e3ec065d9f7a8e21f9e7c881b5acab13579
CV_by_ViT/MVTec-AD_bottle 292 1000 63
    f579661bb37203606527ae5ec5aea574c7de478e9223d6abd86c7eedcfd62138
CV_by_ViT/MVTec-AD_grid 342 1000 57
    bd013ea2173d3736706f07eebf822955ca2f827d20662798915332a09c61f377
NLP_by_BERT/20news_3 615 768 30
    b5a1d572cac7c81ebc3cf485649c45b7580cb326edf07a1681679984d016831d
"""


class Entry(NamedTuple):
    """What is known of one file."""

    n_samples: int
    n_features: int
    n_anomalies: int
    sha256: str


def _parse(text):
    words = text.split()
    return {
        words[i]: Entry(*map(int, words[i + 1 : i + 4]), words[i + 4])
        for i in range(0, len(words), 5)
    }


#: "category/name" -> Entry, in ADBench's order.
TABLE = _parse(_TEXT)
