# SPDX-License-Identifier: Apache-2.0
"""Benchmark of an Android app's frames; `recordings.frames.android` reads what Android prints."""
