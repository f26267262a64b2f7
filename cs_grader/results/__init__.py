"""What is written from a result, for whom.

adjustments.py     points that an instructor gives or takes
reading.py         what a student may see of an item, what to do next
gradescope.py      results.json
gradebook.py       gradebook.csv
github.py          github-classroom.txt
page.py            fills in the templates that lie here, with the style of tests/exam/page.css:
                   index.html for the student, instructor.html with what is hidden from them,
                   report.md (by markdown.py)
class_page.py      index.html of a class: common mistakes and everyone in one table
write.py           all of these files, into a folder
"""
