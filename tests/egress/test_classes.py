"""The table of known classes names its tests: none is missing, and everything named is there."""

import os
import re
import unittest

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
NAMED = [str(n) for n in range(1, 80)] + [f"p{n}" for n in range(1, 39)]


def read(*path):
    with open(os.path.join(TOP, *path), encoding="utf-8") as f:
        return f.read()


def rows():
    for line in read("tests", "cases", "egress-classes.tsv").splitlines():
        if line and not line.startswith("#"):
            yield line.split("\t")


def hosts():
    for line in read("tests", "cases", "egress-hosts.tsv").splitlines():
        if line and not line.startswith("#"):
            yield line.split("\t")[0]


def ids(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from ids(test)
        else:
            yield test.id()


class Classes(unittest.TestCase):
    def setUp(self):
        self.spellings = set(hosts())
        here = os.path.dirname(os.path.abspath(__file__))
        self.tests = set(ids(unittest.defaultTestLoader.discover(here, "test_*.py")))

    def is_there(self, word):
        kind, _, rest = word.partition(":")
        if kind == "host":
            return rest in self.spellings
        if kind == "unit":
            program, _, name = rest.partition("/")
            return re.search(rf'\{{ "{name}", test_{name} }},', read("tests", "unit", program + ".c")) is not None
        if kind == "doc":
            file, _, text = rest.partition(":")
            return text in read(file)
        if word.endswith(".t"):
            return os.path.exists(os.path.join(TOP, "tests", "engine", word))
        return word in self.tests

    def test_none_is_missing(self):
        self.assertEqual([row[0] for row in rows()], NAMED)

    def test_what_is_named_is_there(self):
        for number, title, words in rows():
            self.assertTrue(words.split(), title)
            for word in words.split():
                with self.subTest(row=number, word=word):
                    self.assertTrue(self.is_there(word))
