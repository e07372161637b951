# SPDX-License-Identifier: Apache-2.0
"""Settings that outlast a boot, in the form that exporters write."""
