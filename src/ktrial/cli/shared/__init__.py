# SPDX-License-Identifier: Apache-2.0
"""Code that several verbs share: it uses the App, prompts and prints; the other packages do the work."""
