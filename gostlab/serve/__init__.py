# SPDX-License-Identifier: MIT
"""Serve a page on which a knob is turned and a real TCP stack answers.

`serve_cli` is the verb; `app` has the routes, `access` who may use them, `questions` what may be
asked, `run_pool` the runs, `curves` the samples while a run goes on, `answers` its result.
"""
