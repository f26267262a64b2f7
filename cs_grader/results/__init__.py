"""What is written from a result, for whom.

plain_text.py      text without control codes and floods
reading.py         what a student may see of an item, what to do next
gradescope.py      results.json
gradebook.py       gradebook.csv
junit.py           junit.xml
github.py          github-classroom.txt
markdown.py        report.md
page.py            fills in templates that lie here (layout.html; style: tests/exam/page.css)
student_page.py    index.html for the student, instructor.html with what is hidden from them
clusters.py        who answers alike; cluster_names.py: what the instructor calls it (clusters.toml)
class_page.py      index.html of a class: common mistakes and everyone in one table
write.py           all of these files, into a folder
"""
