// RUN: gathernest-opt %s -p "nest,erase-sizes,drop-unit-loops,tile-loops{loops=indices sizes=64},hoist-indices{before=indices_i},prefetch{what=rows loop=indices_i ahead=16}"

// Staged indices end with their tile, and so do the prefetches.
// CHECK: %end = arith.minsi
// CHECK: gather.loop indices_i(%i_i_1) = %i_o to %end step
// CHECK: %last_1 = arith.subi %end, %{{.*}} : index
// CHECK-NEXT: %ahead = arith.minsi %later, %last_1 : index
func.func @gather(%data: tensor<90xf32>, %indices: tensor<700xi64>) -> tensor<700xf32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds clip : tensor<90xf32>, tensor<700xi64> -> tensor<700xf32>
  func.return %r : tensor<700xf32>
}
