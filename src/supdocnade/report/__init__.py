"""Looking at a fitted scene model.

============ =====================================================================
module       what is there
============ =====================================================================
heatmap      which patches of a photograph spoke for a class or a tag, as a picture
associations what a class or a topic is made of: visual words and tags
results      how the model did on photographs held out
charts       small SVG charts; colours the scale of the heat maps
names        names as they are shown
pictures     pictures inside a page
report       all of it in one HTML file
measured     how it does on other photographs, whose truth is known
============ =====================================================================
"""
