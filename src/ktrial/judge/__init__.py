# SPDX-License-Identifier: Apache-2.0
"""From a trial's log to its verdicts, and from foreign data to what they can show."""
