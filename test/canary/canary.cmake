# Deliberate bugs (emblema/contract/canary.h), each with tests that must catch it.
#
# One program has all of them compiled in and none chosen: the tests of block and session as they
# are built anyway, and the library, of which only these files are compiled again. The environment
# chooses a bug. Without one the same tests pass, so what fails fails for the bug.
set(canary_sources block/block_find block/block_manager block/block_share block/manager_state
  block/prefix_index session/quota session/sequence session/sequence_arena session/sequence_past
  session/sequence_state)
list(TRANSFORM canary_sources PREPEND ${PROJECT_SOURCE_DIR}/emblema/)
list(TRANSFORM canary_sources APPEND .cc)
add_executable(canaries ${canary_sources} ${CMAKE_CURRENT_LIST_DIR}/canary.cc
  $<TARGET_OBJECTS:emblema_block_test> $<TARGET_OBJECTS:emblema_session_test>)
target_compile_definitions(canaries PRIVATE EMBLEMA_CANARY_BUILD)
target_link_libraries(canaries PRIVATE emblema emblema_flags fmt::fmt GTest::gmock
  GTest::gtest_main rapidcheck)
add_dependencies(emblema_tests_slow canaries)

# emblema_add_canary(bug tests...): each filter of gtest by itself must fail with the bug.
set(canary_tests "")
function(emblema_add_canary bug)
  add_test(NAME canary_${bug}_is_caught
    COMMAND ${CMAKE_COMMAND} -D program=$<TARGET_FILE:canaries> -D bug=${bug} "-Dtests=${ARGN}"
      -P ${CMAKE_CURRENT_LIST_DIR}/check.cmake)
  set_tests_properties(canary_${bug}_is_caught PROPERTIES LABELS slow TIMEOUT 300)
  list(APPEND canary_tests ${ARGN})
  set(canary_tests ${canary_tests} PARENT_SCOPE)
endfunction()

set(random Setups/RandomOperations.AgreeWithTheModel)
emblema_add_canary(kLostReference ${random}/Bits256OneGroupInline
  ${random}/Bits256OneGroupDeferred ${random}/Bits256TwoGroupsInline
  ${random}/Bits256TwoGroupsDeferred)
emblema_add_canary(kDoubleRelease ${random}/Bits256OneGroupInline)
emblema_add_canary(kWindowEdge ${random}/Bits256TwoGroupsInline)
emblema_add_canary(kTokensNotCompared ${random}/Bits0OneGroupInline
  CutDigest.EveryDigestCollidesAndNoWrongByteIsServed)
emblema_add_canary(kIdentityNotCompared ${random}/Bits0OneGroupInline)
emblema_add_canary(kTailNotZeroed BlockSeal.ZeroesWhatLiesBehindTheFilledRows)
emblema_add_canary(kForeignNotZeroed ${random}/Bits256OneGroupInline
  BlockZeroing.NorWhereBlocksAreScarce)
emblema_add_canary(kFreedAsClean ${random}/Bits256OneGroupInline
  BlockZeroing.NorWhereBlocksAreScarce)
emblema_add_canary(kRejectedCommitted ${random}/Bits256OneGroupInline)
emblema_add_canary(kEvictsPinned ${random}/Bits256OneGroupInline
  PinnedPath.TheMatchedNodeItselfStays)
emblema_add_canary(kEvictsMiddle ${random}/Bits256OneGroupInline Eviction.TakesTheEndOfAChainFirst)
emblema_add_canary(kNotCopiedOnWrite ${random}/Bits256OneGroupInline)
emblema_add_canary(kCopiedShort ${random}/Bits256OneGroupInline
  BlockReopen.ASharedBlockIsCopiedAndNeverWritten)
emblema_add_canary(kSharedUncompared ${random}/Bits0OneGroupInline
  CutDigest.EveryDigestCollidesAndNoWrongByteIsServed)
emblema_add_canary(kQuotaNotGivenBack ${random}/Bits256OneGroupInline
  TenantQuota.IsGivenBackByEverySequenceThatEnds)
emblema_add_canary(kRefusalEvicts BlockTake.ARefusalEvictsNothing)
set(hybrid All/RandomHybridOperations.HoldAgainstWhatMustBeTrue)
emblema_add_canary(kRingWrittenShared ${hybrid}/CompressedfullDrafts3
  All/HybridKind.ForksShareUntilTheyWriteAndNeverSeeEachOther/Compressed)
emblema_add_canary(kSnapshotIgnored
  All/HybridKind.SnapshotsAreLeftWhereThePolicySays/Recurrent
  HybridHit.EndsAtTheLongestBoundaryThatHasBlocksAndASnapshot)
emblema_add_canary(kChainNotCut ${random}/Bits256OneGroupInline
  All/TruncatePaged.ToAnyLengthAndOnFromThere/Grouped)

list(REMOVE_DUPLICATES canary_tests)
list(JOIN canary_tests : canary_tests)
add_test(NAME canaries_pass_without_a_bug COMMAND canaries --gtest_filter=${canary_tests})
set_tests_properties(canaries_pass_without_a_bug PROPERTIES LABELS slow TIMEOUT 300)

# What users link has none of it.
add_test(NAME canaries_are_not_in_the_library
  COMMAND ${CMAKE_COMMAND} -D nm=${CMAKE_NM} -D library=$<TARGET_FILE:emblema>
    -D program=$<TARGET_FILE:canaries> -P ${CMAKE_CURRENT_LIST_DIR}/absent.cmake)
set_tests_properties(canaries_are_not_in_the_library PROPERTIES LABELS slow TIMEOUT 60)
