# SPDX-License-Identifier: Apache-2.0
# Usage: Rscript search_irace.R ASKS ANSWERS PARAMETERS RUNS SEED
# Searches with irace. Each run is a line NAME=VALUE … in the pipe ASKS; its cost is the next line of the pipe ANSWERS.
# The last line in ASKS is `best` and the best configuration.
suppressMessages(library(irace))
words <- commandArgs(trailingOnly = TRUE)
asks <- fifo(words[1], "w", blocking = TRUE)
answers <- fifo(words[2], "r", blocking = TRUE)

line_of <- function(configuration) {
  values <- vapply(configuration, function(value) format(value, digits = 15), "")
  paste(names(configuration), values, sep = "=", collapse = " ")
}

run <- function(experiment, scenario) {
  writeLines(line_of(experiment$configuration), asks)
  flush(asks)
  list(cost = as.numeric(readLines(answers, 1)))
}

parameters <- readParameters(words[3])
# With its defaults (a first test after five runs of each configuration, five iterations) irace refuses so few runs.
scenario <- list(
  targetRunner = run, instances = 1:1000, maxExperiments = as.integer(words[4]), seed = as.integer(words[5]),
  firstTest = 2, nbIterations = 3, logFile = "", quiet = TRUE
)
best <- irace(scenario, parameters)
writeLines(paste("best", line_of(best[1, parameters$names])), asks)
close(asks)
