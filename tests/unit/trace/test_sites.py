"""The catalogue of sites: one line each, no name twice, block numbers written out on request."""

import fnmatch

import pytest

from clearhead.models import FAMILIES
from clearhead.trace import SITES, VARIANTS, sites_of

ALL = SITES | VARIANTS


def test_every_registered_family_has_a_catalogue_and_no_catalogue_lacks_a_family():
    assert set(SITES) == set(FAMILIES)
    assert not set(VARIANTS) & set(FAMILIES)


@pytest.mark.parametrize("family", ALL)
def test_no_site_is_listed_twice_and_every_one_says_its_shape_and_meaning(family):
    names = [site.name for site in ALL[family]]
    assert len(set(names)) == len(names)
    assert all(site.shape and site.meaning for site in ALL[family])


@pytest.mark.parametrize("family", ALL)
def test_block_numbers_are_written_out(family):
    written = sites_of(family, 3)
    assert not any("*" in site for site in written)
    assert len(set(written)) == len(written)
    starred = [site.name for site in ALL[family] if "*" in site.name]
    for pattern in starred:
        assert len([site for site in written if fnmatch.fnmatchcase(site, pattern)]) >= 3
    assert len(written) == len(ALL[family]) + 2 * len(starred)
