# SPDX-License-Identifier: Apache-2.0
"""The verbs, found by walking this folder: a new verb is a new file with a `command` and nothing else."""
