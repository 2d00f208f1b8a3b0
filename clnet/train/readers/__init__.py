"""From files and frames to what a Trainer takes: tables, images, text, and the preparation that is fitted on the way.

Nothing here is run on a device.
"""
