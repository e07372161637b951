# SPDX-License-Identifier: Apache-2.0
"""Code that several commands of ktrial share.

These modules use the App, prompt and print; the other packages do the work.
"""
