# SPDX-License-Identifier: Apache-2.0
"""Code that several commands of ktrial share.

It uses the App, prompts and prints; the other packages do the work.
"""
