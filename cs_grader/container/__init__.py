"""What runs in a container of Gradescope, from the zip of scripts/instructor/make_gradescope.py.

setup.sh runs once, when the image is built, and installs Python and packages. run_autograder runs
for each submission: it writes the first results.json, then starts __main__.py, which marks the
submission and keeps results.json up to date meanwhile.
"""
