#!/usr/bin/env python3
"""Tests of tools/check_pictures: a page and a picture in order, and one fault at a time in them."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
SVG = ('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 340 200">'
       "<title>Bytes</title><style>.a{fill:red}</style><rect/></svg>")
PAGE = ('<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"/><title>Plan</title></head>'
        f"<body>http: in words is no reference {SVG}</body></html>")


def check(name, text):
    """Exit code and output for one file of this name and text."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        ran = subprocess.run([sys.executable, "-B", str(HERE / "check_pictures"), str(path)],
                             capture_output=True, text=True, check=False)
        return ran.returncode, ran.stdout


class CheckPictures(unittest.TestCase):
    def refuses(self, name, text, words):
        code, output = check(name, text)
        self.assertEqual(code, 1, output)
        self.assertIn(words, output)

    def test_what_is_in_order_passes(self):
        for name, text in (("a.html", PAGE), ("a.svg", SVG)):
            code, output = check(name, text)
            self.assertEqual(code, 0, output)
            self.assertIn("1 files, 0 problems", output)

    def test_markup_that_only_browsers_forgive_is_refused(self):
        self.refuses("a.html", PAGE.replace("</body>", ""), "not well formed")
        self.refuses("a.html", PAGE.replace("in words", "a & b"), "not well formed")
        self.refuses("a.svg", SVG.replace("</svg>", ""), "not well formed")
        self.refuses("a.svg", SVG + "\n" + SVG, "not well formed")
        self.refuses("a.svg", b"\xff" + SVG.encode(), "cannot be read")
        self.refuses("a.html", PAGE[len("<!DOCTYPE html>\n"):], "does not begin with")

    def test_what_is_fetched_or_run_is_refused(self):
        for inserted in ('<script>1</script>', '<img src="a.png"/>', '<a href="//x.org">x</a>',
                         '<p style="background:url(x.png)"/>', '<p onclick="x()"/>',
                         '<style>@import "x.css";</style>', '<link rel="stylesheet"/>'):
            code, output = check("a.html", PAGE.replace("<svg", inserted + "<svg"))
            self.assertEqual(code, 1, inserted)
            self.assertIn("problems", output)

    def test_a_picture_says_what_it_is_and_how_large(self):
        self.refuses("a.svg", SVG.replace("Bytes", " "), "<svg> has no <title>")
        self.refuses("a.svg", SVG.replace("0 0 340 200", "0 0 340"), "wanted: four numbers")
        self.refuses("a.svg", SVG.replace("0 0 340 200", "0 0 0 200"), "wanted: four numbers")
        self.refuses("a.svg", SVG.replace("<rect/>", SVG), "wanted: one")
        self.refuses("a.html", PAGE.replace(SVG, ""), "has no picture")
        self.refuses("a.html", PAGE.replace(' lang="en"', ""), "a language")
        self.refuses("a.html", PAGE.replace("<title>Plan</title>", ""), "has no <title>")

    def test_another_kind_of_file_is_refused_and_named(self):
        self.refuses("a.png", "x", "ends in '.png'; allowed: .html, .svg")


if __name__ == "__main__":
    unittest.main()
