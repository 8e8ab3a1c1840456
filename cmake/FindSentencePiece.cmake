# Finds SentencePiece: defines the target SentencePiece::sentencepiece, with its trainer. Hints: SENTENCEPIECE_INCLUDE_DIR,
# SENTENCEPIECE_LIBRARY and SENTENCEPIECE_TRAIN_LIBRARY.
find_path(SENTENCEPIECE_INCLUDE_DIR sentencepiece_processor.h)
find_library(SENTENCEPIECE_LIBRARY sentencepiece)
find_library(SENTENCEPIECE_TRAIN_LIBRARY sentencepiece_train)
mark_as_advanced(SENTENCEPIECE_INCLUDE_DIR SENTENCEPIECE_LIBRARY SENTENCEPIECE_TRAIN_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(SentencePiece
  REQUIRED_VARS SENTENCEPIECE_LIBRARY SENTENCEPIECE_TRAIN_LIBRARY SENTENCEPIECE_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "It cuts text into subwords: install libsentencepiece-dev, or name all three.")

if(SentencePiece_FOUND AND NOT TARGET SentencePiece::sentencepiece)
  add_library(SentencePiece::sentencepiece UNKNOWN IMPORTED)
  set_target_properties(SentencePiece::sentencepiece PROPERTIES
    IMPORTED_LOCATION "${SENTENCEPIECE_TRAIN_LIBRARY}" INTERFACE_LINK_LIBRARIES "${SENTENCEPIECE_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${SENTENCEPIECE_INCLUDE_DIR}")
endif()
