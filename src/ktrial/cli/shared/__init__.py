# SPDX-License-Identifier: Apache-2.0
"""What several verbs share: it knows the App, asks and shows, and leaves the work to the packages below."""
