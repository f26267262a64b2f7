"""What is written from a result, for whom.

plain_text.py      text without control codes and floods
reading.py         what a student may see of an item, what to do next
gradescope.py      results.json
gradebook.py       gradebook.csv
junit.py           junit.xml
github.py          github-classroom.txt
markdown.py        report.md
page.py            HTML that escapes; style.py: how it looks
student_page.py    index.html for the student, instructor.html with what is hidden from them
clusters.py        who answers alike; cluster_names.py: what the instructor calls it (clusters.toml)
class_table.py     the table of a class; class_script.py: sorts and filters it
class_clusters.py  those who answer alike, as a class page shows them
class_page.py      index.html of a class
write.py           all of these files, into a folder
"""
